"""The addresses of the project."""

from django.contrib import admin
from django.urls import path

from lockwork.contrib.django import limited
from orders import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("plain", views.plain),
    path("async", views.aplain),
    path("customer", views.by_customer),
    path("twice", views.twice),
    path("one", views.One.as_view()),
    path("two", views.Two.as_view()),
    path("three", limited("1/h")(views.Three.as_view())),
    path("four", limited("1/h")(views.Four.as_view())),
]
